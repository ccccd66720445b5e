(call_expression function: (identifier) @reference.call)
(call_expression function: (field_expression value: (_) @qualifier field: (identifier) @reference.call))
(call_expression function: (generic_function function: (identifier) @reference.call))
(instance_expression (type_identifier) @reference.call)
(instance_expression (generic_type type: (type_identifier) @reference.call))
(extends_clause (type_identifier) @reference.inherit)
(extends_clause (generic_type type: (type_identifier) @reference.inherit))
(type_identifier) @reference.type
