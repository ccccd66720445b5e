(comment) @comment

(chunk (variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name) (expression_list . value: (_) @body))) @definition.variable)
(function_declaration name: (identifier) @name body: (_)? @body) @definition.function
(function_declaration name: (dot_index_expression table: (_) @scope field: (identifier) @name) body: (_)? @body) @definition.function
(function_declaration name: (method_index_expression table: (_) @scope method: (identifier) @name) body: (_)? @body) @definition.method
(assignment_statement (variable_list . name: (identifier) @name)
  (expression_list . value: (function_definition body: (_)? @body))) @definition.function
(variable_declaration (assignment_statement (variable_list . name: (identifier) @name)
  (expression_list . value: (function_definition body: (_)? @body)))) @definition.function
(assignment_statement (variable_list . name: (dot_index_expression table: (_) @scope field: (identifier) @name))
  (expression_list . value: (function_definition body: (_)? @body))) @definition.function
(table_constructor (field name: (identifier) @name value: (function_definition body: (_)? @body)) @definition.function)
((function_call name: (identifier) @_call arguments: (arguments . (string) @name (function_definition body: (_)? @body))) @definition.test
  (#any-of? @_call "describe" "it" "context" "test"))
