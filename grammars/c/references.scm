(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression argument: (_) @qualifier field: (_) @reference.call))
(type_identifier) @reference.type
