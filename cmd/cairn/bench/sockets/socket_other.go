//go:build !linux

package sockets

import "errors"

var errLinux = errors.New("bench: many sockets are measured on Linux only")

type poll struct{}

func dial(Call) (*socket, error)            { return nil, errLinux }
func newPoll() (*poll, error)               { return nil, errLinux }
func enough(int) error                      { return errLinux }
func (s *socket) write([]byte) error        { return errLinux }
func (s *socket) close()                    {}
func (s *socket) read([]byte, *Crowd) error { return errLinux }
func (p *poll) add(*socket) error           { return errLinux }
func (p *poll) remove(*socket)              {}
func (p *poll) all() []*socket              { return nil }
func (p *poll) wait() ([]*socket, error)    { return nil, errLinux }
func (p *poll) close() error                { return nil }
