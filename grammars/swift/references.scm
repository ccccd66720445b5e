(call_expression . (simple_identifier) @reference.call)
(call_expression . (navigation_expression target: (_) @qualifier suffix: (navigation_suffix suffix: (simple_identifier) @reference.call)))
(constructor_expression constructed_type: (user_type (type_identifier) @reference.call))
(inheritance_specifier inherits_from: (user_type (type_identifier) @reference.inherit))
(type_identifier) @reference.type
