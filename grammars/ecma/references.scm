(call_expression function: (identifier) @reference.call)
(call_expression function: (member_expression object: (_) @qualifier property: (_) @reference.call))
(new_expression constructor: (identifier) @reference.call)
(new_expression constructor: (member_expression object: (_) @qualifier property: (_) @reference.call))
