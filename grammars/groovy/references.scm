(method_invocation !object name: (identifier) @reference.call)
(method_invocation object: (_) @qualifier name: (identifier) @reference.call)
(object_creation_expression type: (type_identifier) @reference.call)
(superclass (type_identifier) @reference.inherit)
(super_interfaces (type_list (type_identifier) @reference.inherit))
(type_identifier) @reference.type
