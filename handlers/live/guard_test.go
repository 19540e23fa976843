package live_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/handlers/live"
)

// stream is a net.Conn that has only something to read, handed out in pieces.
type stream struct {
	net.Conn

	rest   []byte
	pieces *rand.Rand
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(len(s.rest), 1+s.pieces.IntN(64))])
	s.rest = s.rest[n:]
	return n, nil
}

func appendFrame(b []byte, final bool, op byte, payload []byte) []byte {
	first := op
	if final {
		first |= 0x80
	}
	b = append(b, first)
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{1, 2, 3, 4}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

// TestGuardTakesOutWhatIsTooLarge: however messages are cut into frames and frames into reads, a reader gets
// every message within the limit, whole and in order, none that is over it, and is told of each of those.
func TestGuardTakesOutWhatIsTooLarge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 300
		var wire []byte
		var want []string
		wantLarge := 0
		for i := range rapid.IntRange(1, 8).Draw(t, "messages") {
			size := rapid.SampledFrom([]int{0, 1, 125, 126, 299, 300, 301, 400, 70_000}).Draw(t, "size")
			body := bytes.Repeat([]byte{byte('a' + i)}, size)
			if size <= limit {
				want = append(want, string(body))
			} else {
				wantLarge++
			}
			op := byte(1)
			for first := true; first || len(body) > 0; first = false {
				n := rapid.IntRange(0, len(body)).Draw(t, "fragment")
				last := n == len(body)
				wire = appendFrame(wire, last, op, body[:n])
				body = body[n:]
				op = 0
				if last {
					break
				}
				if rapid.Bool().Draw(t, "ping between") {
					wire = appendFrame(wire, true, 9, []byte("ping"))
				}
			}
		}
		seed := rapid.Uint64().Draw(t, "pieces")
		got, large, pings := read(wire, limit, seed)
		if fmt.Sprint(got) != fmt.Sprint(want) || large != wantLarge {
			t.Fatalf("got %d messages and %d too large, want %d and %d (%d pings)", len(got), large, len(want), wantLarge, pings)
		}
	})
}

// read parses what the guard lets through, as RFC 6455 says.
func read(wire []byte, limit int64, seed uint64) (messages []string, large, pings int) {
	guarded, whole := live.Guarded(&stream{rest: wire, pieces: rand.New(rand.NewPCG(seed, 1))}, limit, func(int64) { large++ })
	var message []byte
	for {
		var head [2]byte
		if _, err := io.ReadFull(guarded, head[:]); err != nil {
			return messages, large, pings
		}
		n := int(head[1] & 0x7f)
		switch n {
		case 126:
			var long [2]byte
			_, _ = io.ReadFull(guarded, long[:]) // the payload will tell
			n = int(binary.BigEndian.Uint16(long[:]))
		case 127:
			var long [8]byte
			_, _ = io.ReadFull(guarded, long[:]) // the payload will tell
			n = int(binary.BigEndian.Uint64(long[:]))
		}
		var mask [4]byte
		_, _ = io.ReadFull(guarded, mask[:])
		payload := make([]byte, n)
		if _, err := io.ReadFull(guarded, payload); err != nil {
			return messages, large, pings
		}
		for i := range payload {
			payload[i] ^= mask[i%4]
		}
		if head[0]&0x0f == websocket.PingMessage {
			pings++
			continue
		}
		message = append(message, payload...)
		if head[0]&0x80 != 0 {
			if whole() {
				messages = append(messages, string(message))
			}
			message = nil
		}
	}
}

func (s *stream) SetReadDeadline(time.Time) error { return nil }
