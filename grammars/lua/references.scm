(function_call name: (identifier) @reference.call)
(function_call name: (dot_index_expression table: (_) @qualifier field: (identifier) @reference.call))
(function_call name: (method_index_expression table: (_) @qualifier method: (identifier) @reference.call))
