(comment) @comment

(program (const_declaration (const_element (name) @name)) @definition.constant)
(program (expression_statement (function_call_expression function: (name) @_define
  arguments: (arguments . (argument (string) @name)))) @definition.constant (#eq? @_define "define"))
(class_declaration name: (name) @name body: (_) @body) @definition.class
(interface_declaration name: (name) @name body: (_) @body) @definition.interface
(trait_declaration name: (name) @name body: (_) @body) @definition.trait
(enum_declaration name: (name) @name body: (_) @body) @definition.enum
(declaration_list (const_declaration (const_element (name) @name)) @definition.field)
(property_declaration (property_element name: (variable_name (name) @name))) @definition.field
(method_declaration name: (name) @name body: (_)? @body) @definition.method
(function_definition name: (name) @name body: (_) @body) @definition.function
(property_promotion_parameter name: (variable_name (name) @name)) @definition.field
(enum_case name: (name) @name) @definition.field
