(call_expression function: (identifier) @reference.call)
(call_expression function: (scoped_identifier path: (_) @qualifier name: (_) @reference.call))
(call_expression function: (field_expression value: (_) @qualifier field: (_) @reference.call))
(call_expression function: (generic_function function: (identifier) @reference.call))
(call_expression function: (generic_function function: (scoped_identifier path: (_) @qualifier name: (_) @reference.call)))
(call_expression function: (generic_function function: (field_expression value: (_) @qualifier field: (_) @reference.call)))
(macro_invocation macro: (identifier) @reference.call)
(macro_invocation macro: (scoped_identifier path: (_) @qualifier name: (_) @reference.call))
(type_identifier) @reference.type
(impl_item trait: [
  (type_identifier) @reference.inherit
  (generic_type type: (type_identifier) @reference.inherit)
  (scoped_type_identifier name: (type_identifier) @reference.inherit)])
(trait_item bounds: (trait_bounds (type_identifier) @reference.inherit))
