(library_import (import_specification (configurable_uri (uri (string_literal) @module)))) @import
((library_import (import_specification (configurable_uri) (identifier) @alias)) @import (#set! imported "*"))
(library_import (import_specification (combinator (identifier) @imported))) @import
(library_export (configurable_uri (uri (string_literal) @module))) @import
(part_directive (uri (string_literal) @module)) @import
