(call_expression function: (identifier) @reference.call)
(message_expression receiver: (_) @qualifier method: (identifier) @reference.call)
(class_interface superclass: (identifier) @reference.inherit)
(class_interface (parameterized_arguments (type_name (type_identifier) @reference.inherit)))
(protocol_reference_list (identifier) @reference.inherit)
(type_identifier) @reference.type
