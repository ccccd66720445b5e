(comment) @comment
(pod) @comment

(source_file (expression_statement (assignment_expression
  left: (variable_declaration "our" variable: (_ (varname) @name)))) @definition.variable)
((use_statement module: (package) @_constant (list_expression . (autoquoted_bareword) @name)) @definition.constant (#eq? @_constant "constant"))
((use_statement module: (package) @_constant (anonymous_hash_expression (list_expression (autoquoted_bareword) @name @definition.constant)))
  (#eq? @_constant "constant"))
((package_statement name: (package) @name @head) @definition.module (#set! onward "yes"))
(package_statement name: (package) @name (block) @body) @definition.module
(subroutine_declaration_statement name: (bareword) @name body: (_)? @body) @definition.function
(method_declaration_statement name: (bareword) @name body: (_)? @body) @definition.method
