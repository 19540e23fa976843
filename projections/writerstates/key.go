package writerstates

// Key is how the table of answers keeps a command's id, for who compares it with something else.
func Key(commandID string) []byte { return packed(commandID) }
