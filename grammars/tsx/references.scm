((jsx_opening_element name: (identifier) @reference.call) (#like? @reference.call "^[A-Z]"))
((jsx_self_closing_element name: (identifier) @reference.call) (#like? @reference.call "^[A-Z]"))
(jsx_opening_element name: (member_expression object: (_) @qualifier property: (_) @reference.call))
(jsx_self_closing_element name: (member_expression object: (_) @qualifier property: (_) @reference.call))
