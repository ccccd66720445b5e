(function_call_expression function: (function) @reference.call)
(ambiguous_function_call_expression function: (function) @reference.call)
(method_call_expression invocant: (_) @qualifier method: (method) @reference.call)
((use_statement module: (package) @_parent (quoted_word_list (string_content) @reference.inherit)) (#any-of? @_parent "parent" "base"))
