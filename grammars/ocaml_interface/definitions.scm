(comment) @comment
(value_specification (value_name) @name) @definition.prototype
(external (value_name) @name) @definition.function
(type_binding name: (type_constructor) @name) @definition.type
(type_binding name: (type_constructor) @name body: (_) @body) @definition.type
(exception_definition (constructor_declaration (constructor_name) @name)) @definition.type
(module_type_definition (module_type_name) @name) @definition.interface
(module_type_definition (module_type_name) @name body: (_) @body) @definition.interface
(module_definition (module_binding (module_name) @name @head)) @definition.module
(variant_declaration (constructor_declaration (constructor_name) @name) @definition.constructor)
(field_declaration (field_name) @name) @definition.field
(type_binding body: (polymorphic_variant_type (tag_specification (tag) @name @definition.constructor)))
