(comment) @comment

(preproc_def name: (identifier) @name value: (_)? @body) @definition.macro
(preproc_function_def name: (identifier) @name value: (_)? @body) @definition.macro
(namespace_definition name: (_) @name body: (_) @body) @definition.namespace

(declaration declarator: (function_declarator declarator: [(identifier) (qualified_identifier) (operator_name) (destructor_name)] @name)) @definition.prototype
(declaration declarator: (pointer_declarator (function_declarator declarator: [(identifier) (qualified_identifier)] @name))) @definition.prototype
(declaration declarator: (reference_declarator (function_declarator declarator: [(identifier) (qualified_identifier) (operator_name)] @name))) @definition.prototype
(field_declaration declarator: (function_declarator declarator: [(field_identifier) (operator_name) (destructor_name)] @name)) @definition.prototype
(field_declaration declarator: (pointer_declarator (function_declarator declarator: (field_identifier) @name))) @definition.prototype
(field_declaration declarator: (reference_declarator (function_declarator declarator: [(field_identifier) (operator_name)] @name))) @definition.prototype

(declaration declarator: (operator_cast) @name) @definition.prototype
(field_declaration declarator: (operator_cast) @name) @definition.prototype
(translation_unit (declaration declarator: [
  (identifier) @name
  (qualified_identifier) @name
  (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
  (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (array_declarator declarator: (array_declarator declarator: (identifier) @name))
  (init_declarator declarator: [
    (identifier) @name
    (qualified_identifier) @name
    (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
    (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
    (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (array_declarator declarator: (array_declarator declarator: (identifier) @name))] value: (_) @body)]) @definition.variable)
(declaration_list (declaration declarator: [
  (identifier) @name
  (qualified_identifier) @name
  (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
  (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (array_declarator declarator: (array_declarator declarator: (identifier) @name))
  (init_declarator declarator: [
    (identifier) @name
    (qualified_identifier) @name
    (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
    (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
    (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (array_declarator declarator: (array_declarator declarator: (identifier) @name))] value: (_) @body)]) @definition.variable)
(preproc_if (declaration (storage_class_specifier) declarator: [
  (identifier) @name
  (qualified_identifier) @name
  (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
  (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (array_declarator declarator: (array_declarator declarator: (identifier) @name))
  (init_declarator declarator: [
    (identifier) @name
    (qualified_identifier) @name
    (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
    (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
    (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (array_declarator declarator: (array_declarator declarator: (identifier) @name))] value: (_) @body)]) @definition.variable)
(preproc_ifdef (declaration (storage_class_specifier) declarator: [
  (identifier) @name
  (qualified_identifier) @name
  (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
  (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (array_declarator declarator: (array_declarator declarator: (identifier) @name))
  (init_declarator declarator: [
    (identifier) @name
    (qualified_identifier) @name
    (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
    (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
    (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (array_declarator declarator: (array_declarator declarator: (identifier) @name))] value: (_) @body)]) @definition.variable)
(preproc_else (declaration (storage_class_specifier) declarator: [
  (identifier) @name
  (qualified_identifier) @name
  (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
  (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
  (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
  (array_declarator declarator: (array_declarator declarator: (identifier) @name))
  (init_declarator declarator: [
    (identifier) @name
    (qualified_identifier) @name
    (pointer_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @name))
    (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))
    (array_declarator declarator: [(identifier) (qualified_identifier)] @name)
    (array_declarator declarator: (array_declarator declarator: (identifier) @name))] value: (_) @body)]) @definition.variable)

(function_definition declarator: (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (operator_name) (destructor_name)] @name)
  body: (_)? @body) @definition.function
(function_definition declarator: (pointer_declarator (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (operator_name)] @name)) body: (_)? @body) @definition.function
(function_definition declarator: (reference_declarator (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (operator_name)] @name)) body: (_)? @body) @definition.function
(function_definition declarator: (operator_cast) @name body: (_)? @body) @definition.function
(template_declaration (function_definition declarator: (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (operator_name)] @name) body: (_)? @body)) @definition.function
(template_declaration (function_definition declarator: (reference_declarator (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (operator_name)] @name)) body: (_)? @body)) @definition.function

(class_specifier name: [(type_identifier) @name (qualified_identifier) @name (template_type name: (_) @name)] body: (_) @body) @definition.class
(struct_specifier name: [(type_identifier) @name (qualified_identifier) @name (template_type name: (_) @name)] body: (_) @body) @definition.struct
(union_specifier name: [(type_identifier) @name (qualified_identifier) @name (template_type name: (_) @name)] body: (_) @body) @definition.struct
(enum_specifier name: (_) @name body: (_) @body) @definition.enum
(template_declaration (class_specifier name: [(type_identifier) @name (qualified_identifier) @name (template_type name: (_) @name)] body: (_) @body)) @definition.class
(template_declaration (struct_specifier name: [(type_identifier) @name (qualified_identifier) @name (template_type name: (_) @name)] body: (_) @body)) @definition.struct
(class_specifier name: (qualified_identifier scope: (_) @scope name: (template_type name: (_) @name)) body: (_) @body) @definition.class
(struct_specifier name: (qualified_identifier scope: (_) @scope name: (template_type name: (_) @name)) body: (_) @body) @definition.struct
(template_declaration (alias_declaration name: (_) @name)) @definition.type
(template_declaration (concept_definition name: (_) @name)) @definition.type
(concept_definition name: (_) @name) @definition.type
(alias_declaration name: (_) @name) @definition.type
(type_definition declarator: [
  (type_identifier) @name
  (pointer_declarator (type_identifier) @name)
  (array_declarator declarator: (type_identifier) @name)
  (function_declarator declarator: (parenthesized_declarator (pointer_declarator (type_identifier) @name)))
  (pointer_declarator (function_declarator declarator: (parenthesized_declarator (pointer_declarator (type_identifier) @name))))]) @definition.type
(type_definition type: (struct_specifier !name body: (_) @body) declarator: (type_identifier) @name) @definition.struct
(type_definition type: (enum_specifier !name body: (_) @body) declarator: (type_identifier) @name) @definition.enum
(enumerator name: (identifier) @name) @definition.constant
(field_declaration declarator: [
  (field_identifier) @name
  (pointer_declarator declarator: (field_identifier) @name)
  (pointer_declarator declarator: (pointer_declarator declarator: (field_identifier) @name))
  (pointer_declarator declarator: (array_declarator declarator: (field_identifier) @name))
  (array_declarator declarator: (field_identifier) @name)
  (array_declarator declarator: (array_declarator declarator: (field_identifier) @name))
  (function_declarator declarator: (parenthesized_declarator (pointer_declarator declarator: (field_identifier) @name)))
  (reference_declarator (field_identifier) @name)]) @definition.field

((function_definition declarator: (function_declarator declarator: (identifier) @_macro
  parameters: (parameter_list . (_) @scope . (_) @name .)) body: (_) @body) @definition.test
  (#any-of? @_macro "TEST" "TEST_F" "TEST_P" "TYPED_TEST" "TYPED_TEST_P"))
((function_definition declarator: (function_declarator declarator: (identifier) @_macro
  parameters: (parameter_list . (_) @name)) body: (_) @body) @definition.test
  (#any-of? @_macro "TEST_CASE" "SCENARIO" "BENCHMARK"))
