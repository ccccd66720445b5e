(comment) @comment

(compilation_unit (value_definition (let_binding pattern: (value_name) @name body: (_) @body) @definition.variable))
(structure (value_definition (let_binding pattern: (value_name) @name body: (_) @body) @definition.variable))
(let_binding pattern: (value_name) @name (parameter) body: (_) @body) @definition.function
(let_binding pattern: (value_name) @name body: [(fun_expression) (function_expression)] @body) @definition.function
(let_binding pattern: (parenthesized_operator (_) @name) body: (_) @body) @definition.function
(value_specification (value_name) @name) @definition.prototype
(external (value_name) @name) @definition.function
(type_binding name: (type_constructor) @name) @definition.type
(type_binding name: (type_constructor) @name body: (_) @body) @definition.type
(exception_definition (constructor_declaration (constructor_name) @name)) @definition.type
(module_binding (module_name) @name) @definition.module
(module_binding (module_name) @name body: (_) @body) @definition.module
(module_type_definition (module_type_name) @name) @definition.interface
(module_type_definition (module_type_name) @name body: (_) @body) @definition.interface
(class_binding (class_name) @name body: (_) @body) @definition.class
(method_definition (method_name) @name body: (_) @body) @definition.method
(instance_variable_definition (instance_variable_name) @name) @definition.field
(variant_declaration (constructor_declaration (constructor_name) @name) @definition.constructor)
(field_declaration (field_name) @name) @definition.field
(type_binding body: (polymorphic_variant_type (tag_specification (tag) @name @definition.constructor)))
