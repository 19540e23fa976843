package feed_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnhq/cairn/streams/kafka"
)

// deafened hears nothing any more once it has sent something to a topic: the broker has it, and the answer never comes.
type deafened struct {
	net.Conn
	sent chan<- struct{} // told at most once
	deaf sync.Once
	end  chan struct{}
	over sync.Once
	on   chan struct{}
}

func (c *deafened) Write(b []byte) (int, error) {
	if len(b) >= 6 && kmsg.Key(binary.BigEndian.Uint16(b[4:])) == kmsg.Produce {
		c.deaf.Do(func() { close(c.on) })
		select {
		case c.sent <- struct{}{}:
		default:
		}
	}
	return c.Conn.Write(b)
}

func (c *deafened) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.on:
		<-c.end
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *deafened) Close() error {
	c.over.Do(func() { close(c.end) })
	return c.Conn.Close()
}

// A publisher that is alone with its broker and loses its partition while a batch is on its way must not go on, nor let
// another: nobody knows whether the batch is there.
func TestABatchInDoubtEndsAPublisherThatLostItsPartition(t *testing.T) {
	t.Parallel()
	broker := embedded(t, t.TempDir())
	p := newPress(t, broker, 7)
	p.print(10)
	sent := make(chan struct{}, 1)
	publisher := p.publisher(func(c *kafka.PublisherConfig) {
		alone(c)
		c.Within = 8 * time.Second
		c.Options = append(c.Options, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &deafened{Conn: conn, sent: sent, end: make(chan struct{}), on: make(chan struct{})}, err
		}))
	})
	ctx, stop := context.WithTimeout(t.Context(), 40*time.Second)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- publisher.Run(ctx) }()
	select {
	case <-sent:
	case <-ctx.Done():
		t.Fatal("nothing was published")
	}
	leave(t, p)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "only a restart of the broker settles it") {
		t.Errorf("the publisher ended with %v", err)
	}
}

// leave puts the publisher out of its group.
func leave(t *testing.T, p *press) {
	t.Helper()
	const group = "cairn.publishers"
	found, err := kadm.NewClient(p.cl).DescribeGroups(t.Context(), group)
	if err != nil || len(found[group].Members) != 1 {
		t.Fatalf("the group is %+v, %v", found, err)
	}
	ask := kmsg.NewPtrLeaveGroupRequest()
	ask.Group = group
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = found[group].Members[0].MemberID
	ask.Members = append(ask.Members, member)
	if _, err := ask.RequestWith(t.Context(), p.cl); err != nil {
		t.Fatal(err)
	}
}
