package live

import _ "embed" // the document

//go:embed asyncapi.yaml
var asyncapi string

// AsyncAPI is the document of the socket, written by `make contract`.
func AsyncAPI() string { return asyncapi }
