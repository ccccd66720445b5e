(comment) @comment
(decorator) @attached

(module (expression_statement
  (assignment left: (identifier) @name right: (_)? @body) @definition.variable))
(module (if_statement consequence: (block (expression_statement
  (assignment left: (identifier) @name right: (_)? @body) @definition.variable))))
(module (if_statement alternative: (_ (block (expression_statement
  (assignment left: (identifier) @name right: (_)? @body) @definition.variable)))))
(module (try_statement body: (block (expression_statement
  (assignment left: (identifier) @name right: (_)? @body) @definition.variable))))
(module (try_statement (_ (block (expression_statement
  (assignment left: (identifier) @name right: (_)? @body) @definition.variable)))))
(class_definition body: (block (expression_statement
  (assignment left: (identifier) @name right: (_)? @body) @definition.variable)))
(class_definition body: (block (if_statement consequence: (block (expression_statement
  (assignment left: (identifier) @name right: (_)? @body) @definition.variable)))))
(type_alias_statement left: (type (identifier) @name)) @definition.type

(class_definition name: (identifier) @name body: (block) @body) @definition.class
(class_definition name: (identifier) @name
  body: (block . (comment)* . (expression_statement . (string) @doc)) @body) @definition.class
(function_definition name: (identifier) @name body: (block) @body) @definition.function
(function_definition name: (identifier) @name
  body: (block . (comment)* . (expression_statement . (string) @doc)) @body) @definition.function
