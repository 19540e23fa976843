package model

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/model"

	"github.com/cairnhq/cairn/handlers/effects/model/offline"
)

// Provider is where models are called. Both models may be the same.
type Provider struct {
	Chat, Router         model.ToolCallingChatModel
	ChatName, RouterName string
	// Metadata is recorded with every turn.
	Metadata map[string]string
}

// Offline is the built-in model, which needs no network and no key.
func Offline() Provider {
	m := offline.New()
	return Provider{
		Chat: m, Router: m, ChatName: offline.Name, RouterName: offline.Name,
		Metadata: map[string]string{"provider": "offline", "note": "built-in offline model: rule-based, no language model was called"},
	}
}

// OpenAIConfig says where an endpoint is that speaks the OpenAI protocol.
type OpenAIConfig struct {
	BaseURL string // such as https://api.openai.com/v1; "/chat/completions" is added
	Key     string
	Model   string
	// RouterModel is a small model that picks the agent; empty: Model.
	RouterModel string
	// Transport is for tests; nil: an own one.
	Transport http.RoundTripper
}

// OpenAI is that endpoint. Nothing is sent yet.
func OpenAI(ctx context.Context, c OpenAIConfig) (Provider, error) {
	if c.BaseURL == "" || c.Model == "" {
		return Provider{}, fmt.Errorf("model endpoint: the base URL and the model's name are needed")
	}
	if c.RouterModel == "" {
		c.RouterModel = c.Model
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			// A model may think for long before its first byte; the turn's own limits end it.
			ResponseHeaderTimeout: 2 * time.Minute,
			TLSHandshakeTimeout:   10 * time.Second,
			MaxIdleConnsPerHost:   32,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
		}
	}
	client := &http.Client{Transport: transport{c.Transport}}
	named := func(name string) (*openai.ChatModel, error) {
		m, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{BaseURL: c.BaseURL, APIKey: c.Key, Model: name, HTTPClient: client})
		if err != nil {
			return nil, fmt.Errorf("model endpoint: %w", err)
		}
		return m, nil
	}
	chat, err := named(c.Model)
	if err != nil {
		return Provider{}, err
	}
	router, err := named(c.RouterModel)
	if err != nil {
		return Provider{}, err
	}
	return Provider{
		Chat: chat, Router: router, ChatName: c.Model, RouterName: c.RouterModel,
		Metadata: map[string]string{"provider": "openai-compatible"},
	}, nil
}
