package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/centrifugal/centrifuge"
)

// secret signs the tokens of this process's users; who connects has none before it was asked for one.
const secret = "of this process alone"

// tokenOf is what lets a user in.
func tokenOf(user string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(user))
	return user + "." + hex.EncodeToString(mac.Sum(nil))
}

// wish is how a connection wants to be written to: the settings that matter, so that each can be tried in one run.
type wish struct {
	DelayMS  int `json:"delay_ms"`
	Messages int `json:"messages"`
}

// newNode makes a node with the memory engine, on which a user connects by token and may subscribe to the channels that are its
// own: "history:USER:…" keeps a history and recovers, "plain:USER:…" does neither.
func newNode() (*centrifuge.Node, error) {
	node, err := centrifuge.New(centrifuge.Config{
		LogLevel: centrifuge.LogLevelError, UseSingleFlight: true, ClientQueueMaxSize: 24 << 20, // as much as Cairn lets wait
		GetChannelMediumOptions: func(string) centrifuge.ChannelMediumOptions {
			return centrifuge.ChannelMediumOptions{SharedPositionSync: true}
		},
	})
	if err != nil {
		return nil, err
	}
	node.OnConnecting(func(_ context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		user, _, ok := strings.Cut(e.Token, ".")
		if !ok || !hmac.Equal([]byte(tokenOf(user)), []byte(e.Token)) {
			return centrifuge.ConnectReply{}, centrifuge.DisconnectInvalidToken
		}
		var w wish
		if len(e.Data) > 0 {
			if err := json.Unmarshal(e.Data, &w); err != nil {
				return centrifuge.ConnectReply{}, centrifuge.DisconnectBadRequest
			}
		}
		return centrifuge.ConnectReply{
			Credentials: &centrifuge.Credentials{UserID: user},
			WriteDelay:  time.Duration(w.DelayMS) * time.Millisecond, WriteWithTimer: w.DelayMS > 0, MaxMessagesInFrame: w.Messages,
		}, nil
	})
	node.OnConnect(func(client *centrifuge.Client) {
		client.OnSubscribe(func(e centrifuge.SubscribeEvent, done centrifuge.SubscribeCallback) {
			kind, rest, _ := strings.Cut(e.Channel, ":")
			if owner, _, _ := strings.Cut(rest, ":"); owner != client.UserID() {
				done(centrifuge.SubscribeReply{}, centrifuge.ErrorPermissionDenied)
				return
			}
			done(centrifuge.SubscribeReply{Options: centrifuge.SubscribeOptions{EnableRecovery: kind == "history"}}, nil)
		})
	})
	return node, nil
}
