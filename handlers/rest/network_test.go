package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/handlers/rest"
)

func TestAnAddressIsTheConnectionsUnlessAProxyIsTrusted(t *testing.T) {
	t.Parallel()
	few := rest.Limits{Sessions: 0.001, SessionBurst: 2}
	wrong := `{"email":"nobody@example.com","password":"wrong password"}`
	forwarded := func(hops string) header { return header{"X-Forwarded-For", hops} }
	last := func(r *ring, addresses ...string) int {
		status := 0
		for _, address := range addresses {
			status = r.nobody().post("/api/v1/sessions", wrong, forwarded(address)).status
		}
		return status
	}
	t.Run("nobody is trusted", func(t *testing.T) {
		r := newRing(t, func(c *rest.Config) { c.Limits = few })
		if got := last(r, "192.0.2.1", "192.0.2.2", "192.0.2.3"); got != http.StatusTooManyRequests {
			t.Errorf("a made-up address is another caller: %d", got)
		}
	})
	t.Run("a proxy is trusted", func(t *testing.T) {
		r := newRing(t, func(c *rest.Config) { c.Limits, c.TrustedProxies = few, []string{"127.0.0.0/8", "::1", "198.51.100.7"} })
		if got := last(r, "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"); got != http.StatusUnauthorized {
			t.Errorf("callers behind a proxy count as one: %d", got)
		}
		if got := last(r, "203.0.113.1, 192.0.2.9", "203.0.113.2, 192.0.2.9", "203.0.113.3, 192.0.2.9, 198.51.100.7"); got != http.StatusTooManyRequests {
			t.Errorf("what a caller says before the proxy counts: %d", got)
		}
		if got := last(r, "2001:db8::1", "2001:db8::2", "2001:db8::ffff:1"); got != http.StatusTooManyRequests {
			t.Errorf("whoever has a network has as many tries as addresses: %d", got)
		}
		if got := last(r, "2001:db8:0:1::1"); got != http.StatusUnauthorized {
			t.Errorf("another network counts as the same: %d", got)
		}
	})
}

func TestPagesOfNamedOriginsMayCall(t *testing.T) {
	t.Parallel()
	asks := []header{{"Origin", "https://app.example"}, {"Access-Control-Request-Method", "PATCH"}, {"Access-Control-Request-Headers", "authorization,if-match"}}
	t.Run("none unless named", func(t *testing.T) {
		r := newRing(t)
		if got := r.nobody().do(http.MethodOptions, "/api/v1/threads", nil, asks...); got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d %v", got.status, got.header)
		}
	})
	r := newRing(t, func(c *rest.Config) { c.Origins = []string{"https://app.example"} })
	got := r.nobody().do(http.MethodOptions, "/api/v1/threads", nil, asks...)
	if h := got.header; got.status != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Access-Control-Allow-Credentials") != "" ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "If-Match") || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "PATCH") {
		t.Errorf("%d %v", got.status, h)
	}
	if got := r.nobody().get("/api/v1/threads", asks[0]).problem(http.StatusUnauthorized, "unauthorized"); got.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "Position") {
		t.Errorf("a problem: %v", got.header)
	}
	for _, evil := range []string{"https://app.example.evil.example", "http://app.example", "https://evil.example", "null"} {
		if got := r.nobody().get("/api/v1/threads", header{"Origin", evil}); got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may read: %v", evil, got.header)
		}
	}
}

func TestWrongNetworksAreRefusedWithWhatToWrite(t *testing.T) {
	t.Parallel()
	newRing(t, func(config *rest.Config) {
		for _, c := range []struct {
			proxies, origins []string
			says             string
		}{
			{[]string{"10.0.0.0/8", "proxy.example"}, nil, `"proxy.example" is no address and no prefix`},
			{nil, []string{"app.example"}, "such as https://app.example"},
			{nil, []string{"https://*.example"}, "is none"},
			{nil, []string{"https://app.example/"}, "is none"},
			{nil, []string{"https://App.example"}, "is none"},
			{nil, []string{"https://app.example:443"}, "is none"},
			{nil, []string{"ftp://app.example"}, "is none"},
			{[]string{"proxy.example"}, []string{"one.example", "two.example"}, `"two.example" is none`},
		} {
			wrong := *config
			wrong.TrustedProxies, wrong.Origins = c.proxies, c.origins
			if _, err := rest.New(wrong); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}
