; Shared by JavaScript, JSX, TypeScript and TSX.
(comment) @comment
(decorator) @attached

(program (lexical_declaration (variable_declarator name: (identifier) @name value: (_)? @body)) @definition.variable)
(program (variable_declaration (variable_declarator name: (identifier) @name value: (_)? @body)) @definition.variable)
(program (export_statement declaration:
  (lexical_declaration (variable_declarator name: (identifier) @name value: (_)? @body)) @definition.variable))
(export_statement "default" @name value: [(object) (call_expression) (arrow_function) (function_expression) (class)] @body) @definition.variable

(function_declaration name: (identifier) @name body: (_) @body) @definition.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @definition.function
(lexical_declaration (variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)])) @definition.function
(variable_declaration (variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)])) @definition.function
(lexical_declaration (variable_declarator name: (identifier) @name value: (class body: (_) @body))) @definition.class
(variable_declaration (variable_declarator name: (identifier) @name value: (class body: (_) @body))) @definition.class

(class_declaration name: (_) @name body: (_) @body) @definition.class
(method_definition name: (_) @name body: (_) @body) @definition.method

(expression_statement (assignment_expression
  left: (member_expression object: (_) @scope property: (_) @name)
  right: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)])) @definition.function
(expression_statement (assignment_expression
  left: (member_expression object: (_) @scope property: (_) @name)
  right: (class body: (_) @body))) @definition.class
(expression_statement (assignment_expression
  left: (identifier) @name
  right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @definition.function
(pair key: [(property_identifier) (string)] @name
  value: [(arrow_function body: (statement_block) @body) (function_expression body: (_) @body)]) @definition.function

(expression_statement (call_expression
  function: [(identifier) @_call (member_expression object: (identifier) @_call)]
  arguments: (arguments . [(string) (template_string)] @name
    [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
  (#any-of? @_call "describe" "it" "test" "suite" "context" "specify" "bench")) @definition.test
