(line_comment) @comment
(block_comment) @comment
(source_file (string_literal) @comment)
(module_definition (string_literal) @comment)

(module_definition name: (identifier) @name @head) @definition.module
(const_statement (assignment . [(identifier) @name (parametrized_type_expression . (identifier) @name)])) @definition.variable
(struct_definition (type_head [
  (identifier) @name
  (parametrized_type_expression . (identifier) @name)
  (binary_expression . (identifier) @name)
  (binary_expression . (parametrized_type_expression . (identifier) @name))]) @head) @definition.struct
(abstract_definition (type_head [
  (identifier) @name
  (parametrized_type_expression . (identifier) @name)
  (binary_expression . (identifier) @name)
  (binary_expression . (parametrized_type_expression . (identifier) @name))])) @definition.type
(function_definition (signature [
  (identifier) @name
  (call_expression . (identifier) @name)
  (call_expression . (parametrized_type_expression . (identifier) @name))
  (call_expression . (field_expression value: (_) @scope (identifier) @name .))
  (typed_expression . (call_expression . (identifier) @name))
  (typed_expression . (call_expression . (parametrized_type_expression . (identifier) @name)))
  (typed_expression . (call_expression . (field_expression value: (_) @scope (identifier) @name .)))
  (where_expression . (call_expression . (identifier) @name))
  (where_expression . (call_expression . (parametrized_type_expression . (identifier) @name)))
  (where_expression . (call_expression . (field_expression value: (_) @scope (identifier) @name .)))
  (where_expression . (typed_expression . (call_expression . (identifier) @name)))
  (where_expression . (typed_expression . (call_expression . (parametrized_type_expression . (identifier) @name))))
  (where_expression . (typed_expression . (call_expression . (field_expression value: (_) @scope (identifier) @name .))))]) @head) @definition.function
(macro_definition (signature (call_expression . (identifier) @name)) @head) @definition.macro
(assignment . [
  (call_expression . (identifier) @name)
  (call_expression . (parametrized_type_expression . (identifier) @name))
  (call_expression . (field_expression value: (_) @scope (identifier) @name .))
  (typed_expression . (call_expression . (identifier) @name))
  (typed_expression . (call_expression . (parametrized_type_expression . (identifier) @name)))
  (typed_expression . (call_expression . (field_expression value: (_) @scope (identifier) @name .)))
  (where_expression . (call_expression . (identifier) @name))
  (where_expression . (call_expression . (parametrized_type_expression . (identifier) @name)))
  (where_expression . (call_expression . (field_expression value: (_) @scope (identifier) @name .)))
  (where_expression . (typed_expression . (call_expression . (identifier) @name)))
  (where_expression . (typed_expression . (call_expression . (parametrized_type_expression . (identifier) @name))))
  (where_expression . (typed_expression . (call_expression . (field_expression value: (_) @scope (identifier) @name .))))]) @definition.function
((macrocall_expression (macro_identifier (identifier) @_macro) (macro_argument_list . (identifier) @name)) @definition.enum
  (#eq? @_macro "enum"))
(struct_definition (identifier) @name @definition.field)
(struct_definition (typed_expression . (identifier) @name) @definition.field)
(struct_definition (assignment . (typed_expression . (identifier) @name)) @definition.field)
