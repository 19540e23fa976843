package sockets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Digits is how many a number has in an event, between two tildes, so that it is found without decoding anything.
const (
	Digits = 8
	mark   = '~'
	marked = Digits + 2
)

// Mark is how a number is written into an event.
func Mark(n int64) string { return fmt.Sprintf("%c%0*d%c", mark, Digits, n, mark) }

// keep is the most that is kept of a socket between two reads: a header, a control frame, or the beginning of a mark.
const keep = 160

// tally is what a socket had: enough to see that it was each number once.
type tally struct {
	events     int64
	sum        int64
	mixed      uint64
	last       int64
	disordered int64
}

func (t *tally) add(n int64) {
	if t.events > 0 && n <= t.last {
		t.disordered++
	}
	t.last = n
	t.events++
	t.sum += n
	x := uint64(n) * 0x9e3779b97f4a7c15
	t.mixed += x ^ x>>29
}

// socket is one socket, after it is level: the frames of a server (RFC 6455), which masks nothing.
type socket struct {
	fd     int
	number int32
	left   uint64 // of the payload of the data frame that is being read
	rest   []byte // what could not be read yet
	had    tally
}

const (
	opClose = 0x8
	opPing  = 0x9
)

// take reads what came, with what was left before, and keeps what it can't read yet.
func (s *socket) take(data []byte, c *Crowd) error {
	now := int64(0)
	for len(data) > 0 {
		if s.left > 0 {
			chunk := data[:min(uint64(len(data)), s.left)]
			if now == 0 {
				now = time.Now().UnixNano()
			}
			used := s.scan(chunk, s.left > uint64(len(chunk)), now, c)
			s.left -= uint64(used)
			data = data[used:]
			if used < len(chunk) {
				break
			}
			continue
		}
		used, err := s.header(data)
		if err != nil {
			return err
		}
		if used == 0 {
			break
		}
		data = data[used:]
	}
	if len(data) > keep {
		return errors.New("a control frame is too long")
	}
	s.rest = append(s.rest[:0], data...)
	return nil
}

// scan finds the marks in a piece of a payload, and answers how much of it is done with. More says that the payload goes on.
func (s *socket) scan(chunk []byte, more bool, now int64, c *Crowd) int { //nolint:revive // whether it is the last piece
	at := 0
	for {
		i := bytes.IndexByte(chunk[at:], mark)
		if i < 0 {
			return len(chunk)
		}
		at += i
		if len(chunk)-at < marked {
			if more {
				return at
			}
			return len(chunk)
		}
		n, ok := number(chunk[at : at+marked])
		if !ok {
			at++
			continue
		}
		at += marked
		s.had.add(n)
		if c.watch {
			c.seen = append(c.seen, Seen{Number: n, At: now, Socket: s.number})
		}
	}
}

func number(b []byte) (n int64, ok bool) {
	if b[marked-1] != mark {
		return 0, false
	}
	for _, digit := range b[1 : marked-1] {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = n*10 + int64(digit-'0')
	}
	return n, true
}

// header reads a frame's header, and the whole of a control frame. 0: more must come first.
func (s *socket) header(data []byte) (used int, err error) {
	if len(data) < 2 {
		return 0, nil
	}
	used, size := 2, uint64(data[1]&0x7f)
	switch size {
	case 126:
		used = 4
	case 127:
		used = 10
	}
	if len(data) < used {
		return 0, nil
	}
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(data[2:]))
	case 127:
		size = binary.BigEndian.Uint64(data[2:])
	}
	op := data[0] & 0x0f
	if op < opClose {
		s.left = size
		return used, nil
	}
	if uint64(len(data)-used) < size {
		return 0, nil
	}
	payload := data[used : used+int(size)]
	switch op {
	case opClose:
		code := 1005
		if len(payload) >= 2 {
			code, payload = int(binary.BigEndian.Uint16(payload)), payload[2:]
		}
		return 0, fmt.Errorf("closed with %d: %s", code, payload)
	case opPing:
		if err := s.write(frame(opPing+1, payload)); err != nil {
			return 0, err
		}
	}
	return used + int(size), nil
}

// frame is a masked frame, as clients send them. The mask is of zeros: nothing between here and the server could be misled.
func frame(op byte, payload []byte) []byte {
	b := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}
