//go:build negative

package safety

import "os"

// Off reports whether CAIRN_OFF names the mechanism.
func Off(m Mechanism) bool { return os.Getenv("CAIRN_OFF") == string(m) }
