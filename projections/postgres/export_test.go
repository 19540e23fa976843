package postgres

// Abandon frees the directory's lock and forgets the server, as a killed process does.
func (c *Cluster) Abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	_ = c.lock.Close()
}
