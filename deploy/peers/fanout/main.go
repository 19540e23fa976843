// Command fanout-peer does with the centrifuge library what `cairn bench fanout` asks of Cairn: it takes sockets, lets each
// subscribe to a channel that its token allows, and publishes what it is told to. It is measured, nothing else uses it; it is a
// module of its own so that Cairn does not carry its dependencies.
//
// It reads orders as JSON lines from its standard input, answers each with one on its standard output, and ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/centrifugal/centrifuge"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fanout-peer:", err)
		os.Exit(1)
	}
}

func run() error {
	node, err := newNode()
	if err != nil {
		return err
	}
	if err := node.Run(); err != nil {
		return fmt.Errorf("run the node: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{
		// What its documentation recommends for many sockets that are mostly idle.
		UseWriteBufferPool: true, ProcessCommandsOffReadLoop: true, WriteTimeout: 10 * time.Second,
		PingPongConfig: centrifuge.PingPongConfig{PongTimeout: -1},
	}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = obey(node, "http://"+listener.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, node.Shutdown(ctx), server.Close())
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// obey does what it is told until the input ends.
func obey(node *centrifuge.Node, url string) error {
	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(map[string]string{"url": url}); err != nil {
		return err
	}
	p := &publisher{node: node}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("an order that can't be read: %w", err)
		}
		a, silent := p.obey(o)
		if silent {
			continue
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}
