(comment) @comment
(multiline_comment) @comment

(source_file (property_declaration name: (pattern bound_identifier: (simple_identifier) @name) value: (_)? @body) @definition.variable)
(class_body (property_declaration name: (pattern bound_identifier: (simple_identifier) @name) value: (_)? @body) @definition.field)
(class_body (property_declaration name: (pattern bound_identifier: (simple_identifier) @name) computed_value: (_) @body) @definition.property)
(enum_class_body (property_declaration name: (pattern bound_identifier: (simple_identifier) @name) computed_value: (_) @body) @definition.property)
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @definition.property
(typealias_declaration name: (type_identifier) @name) @definition.type
(associatedtype_declaration name: (type_identifier) @name) @definition.type
(class_declaration "class" name: (type_identifier) @name body: (_) @body) @definition.class
(class_declaration "actor" name: (type_identifier) @name body: (_) @body) @definition.class
(class_declaration "struct" name: (type_identifier) @name body: (_) @body) @definition.struct
(class_declaration "enum" name: (type_identifier) @name body: (_) @body) @definition.enum
(class_declaration "extension" name: (user_type (type_identifier) @name .)) @container.extension
(protocol_declaration name: (type_identifier) @name body: (_) @body) @definition.interface
(init_declaration "init" @name body: (_)? @body) @definition.constructor
(deinit_declaration "deinit" @name body: (_) @body) @definition.method
(subscript_declaration "subscript" @name) @definition.method
(function_declaration name: (simple_identifier) @name body: (_)? @body) @definition.function
(protocol_function_declaration name: (simple_identifier) @name) @definition.method
(enum_entry name: (simple_identifier) @name) @definition.field
