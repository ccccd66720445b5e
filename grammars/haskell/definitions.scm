(comment) @comment
(haddock) @comment

(data_type name: (name) @name constructors: (_)? @body) @definition.type
(newtype name: (name) @name constructor: (_)? @body) @definition.type
(type_synonym name: (name) @name) @definition.type
(type_family name: (name) @name) @definition.type
(class name: (name) @name declarations: (_)? @body) @definition.class
(instance name: (name) @name) @container.impl
(declarations (signature name: (variable) @name) @definition.function)
(declarations (signature name: (prefix_id (operator) @name)) @definition.function)
(declarations (bind name: (variable) @name match: (_) @body) @definition.function)
(declarations (function name: (variable) @name match: (_) @body) @definition.function)
(declarations (function (infix operator: (operator) @name) match: (_) @body) @definition.function)
(class_declarations (signature name: (variable) @name) @definition.method)
(class_declarations (bind name: (variable) @name match: (_) @body) @definition.method)
(class_declarations (function name: (variable) @name match: (_) @body) @definition.method)
(instance_declarations (function name: (variable) @name match: (_) @body) @definition.method)
(instance_declarations (bind name: (variable) @name match: (_) @body) @definition.method)
(local_binds (function name: (variable) @name match: (_) @body) @definition.function)
(data_constructors (data_constructor [
  (prefix name: (constructor) @name)
  (record name: (constructor) @name)]) @definition.constructor)
(newtype_constructor name: (constructor) @name) @definition.constructor
(gadt_constructor name: (constructor) @name) @definition.constructor
(field name: (field_name (variable) @name)) @definition.field
