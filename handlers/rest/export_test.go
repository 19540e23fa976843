package rest

// Kind is kind, for tests.
type Kind = kind

// Plain is plain, for tests.
func Plain(text string) string { return plain(text) }

// Kinds are all kinds of problems, for tests.
func Kinds() []Kind { return kinds() }

// KindOf is what a rejection becomes, for tests.
func KindOf(code string) Kind { return newTable().rejection(code) }
