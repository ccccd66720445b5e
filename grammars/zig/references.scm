(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression object: (_) @qualifier member: (identifier) @reference.call))
