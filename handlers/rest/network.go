package rest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

// callers says whose address a request comes from: that of the connection, and where that is a trusted
// proxy's, the last one in X-Forwarded-For that is none. Nobody else's word counts.
func callers(proxies []string) (echo.IPExtractor, error) {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect(), nil
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	var errs []error
	for _, text := range proxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, err := netip.ParseAddr(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("rest: trusted proxies: %q is no address and no prefix: write them such as 10.0.0.7 or 10.0.0.0/8", text))
				continue
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		trust = append(trust, echo.TrustIPRange(&net.IPNet{IP: prefix.Masked().Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(trust...), errors.Join(errs...)
}

// CheckProxies names every trusted proxy that is no address and no prefix.
func CheckProxies(proxies []string) error {
	_, err := callers(proxies)
	return err
}

// household is whom an address is counted for: in IPv6 its network of 64 bits, all of which one caller has, else itself.
func household(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is4() || ip.Is4In6() {
		return address
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
}

// preflight is how long, in seconds, a browser may remember what it was allowed.
const preflight = int(10 * time.Minute / time.Second)

// pages lets the pages of some origins read what the interface answers, "*" those of all. There are no cookies,
// so a page can do nothing that its own token does not allow.
func pages(origins []string) (echo.MiddlewareFunc, error) {
	if err := CheckOrigins(origins); err != nil || len(origins) == 0 {
		return nil, err
	}
	return middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper:      func(c echo.Context) bool { return !strings.HasPrefix(c.Request().URL.Path, "/api/") },
		AllowOrigins: origins,
		AllowMethods: []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete},
		AllowHeaders: []string{echo.HeaderAuthorization, echo.HeaderContentType, echo.HeaderXRequestID, HeaderIdempotencyKey, "If-Match", "If-None-Match", "Last-Event-ID", "traceparent"},
		ExposeHeaders: []string{HeaderPosition, "ETag", "Link", echo.HeaderLocation, echo.HeaderRetryAfter, "RateLimit", "RateLimit-Policy",
			headerIdempotencyReplayed, echo.HeaderXRequestID, echo.HeaderWWWAuthenticate},
		MaxAge: preflight,
	}), nil
}

// CheckOrigins names every origin that no browser would send.
func CheckOrigins(origins []string) error {
	var errs []error
	for _, origin := range origins {
		if origin != "*" && !isOrigin(origin) {
			errs = append(errs, fmt.Errorf("rest: origins: %q is none: write them as browsers do, such as https://app.example, or * for all", origin))
		}
	}
	return errors.Join(errs...)
}

// isOrigin reports whether a browser could send it: in lower case, with no path, and no port that goes without saying.
func isOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || strings.Contains(origin, "*") {
		return false
	}
	return u.Scheme == "https" && u.Port() != "443" || u.Scheme == "http" && u.Port() != "80"
}
