(comment) @comment
(documentation_comment) @comment
(annotation) @attached

(program (static_final_declaration_list (static_final_declaration (identifier) @name) @definition.variable))
(program (initialized_identifier_list (initialized_identifier (identifier) @name) @definition.variable))
(type_alias . (type_identifier) @name) @definition.type
(class_definition name: (identifier) @name body: (_) @body) @definition.class
(mixin_declaration (mixin) . (identifier) @name (class_body) @body) @definition.trait
(enum_declaration name: (identifier) @name body: (_) @body) @definition.enum
(extension_declaration name: (identifier) @name body: (_) @body) @definition.extension
(declaration (initialized_identifier_list (initialized_identifier . (identifier) @name))) @definition.field
(declaration (static_final_declaration_list (static_final_declaration . (identifier) @name))) @definition.field
(declaration (constructor_signature name: (identifier) @name .  parameters: (_))) @definition.constructor
(declaration (constant_constructor_signature (identifier) @name . (formal_parameter_list))) @definition.constructor
(declaration (function_signature name: (identifier) @name)) @definition.method
(declaration (getter_signature name: (identifier) @name)) @definition.property
(method_signature (constructor_signature name: (identifier) @name . parameters: (_))) @definition.constructor
(method_signature (factory_constructor_signature (identifier) @name . (formal_parameter_list))) @definition.constructor
(method_signature (function_signature name: (identifier) @name)) @definition.method
(method_signature (getter_signature name: (identifier) @name)) @definition.property
(method_signature (setter_signature name: (identifier) @name)) @definition.property
(method_signature (operator_signature (binary_operator) @name)) @definition.method
((method_signature (constructor_signature name: (identifier) @name . parameters: (_))) @definition.constructor . (function_body) @body @end)
((method_signature (factory_constructor_signature (identifier) @name . (formal_parameter_list))) @definition.constructor . (function_body) @body @end)
((method_signature (function_signature name: (identifier) @name)) @definition.method . (function_body) @body @end)
((method_signature (getter_signature name: (identifier) @name)) @definition.property . (function_body) @body @end)
((method_signature (setter_signature name: (identifier) @name)) @definition.property . (function_body) @body @end)
((method_signature (operator_signature (binary_operator) @name)) @definition.method . (function_body) @body @end)
(program (function_signature name: (identifier) @name) @definition.function)
(program (function_signature name: (identifier) @name) @definition.function . (function_body) @body @end)
(program (getter_signature name: (identifier) @name) @definition.property . (function_body) @body @end)
(local_function_declaration (lambda_expression (function_signature name: (identifier) @name) (function_body) @body)) @definition.function
((expression_statement (identifier) @_call (selector (argument_part (arguments . (argument (string_literal) @name))))) @definition.test
  (#any-of? @_call "test" "group" "testWidgets"))
(enum_constant name: (identifier) @name) @definition.field
