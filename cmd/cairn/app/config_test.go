package app_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/cmd/cairn/app"
)

// TestEverySettingThatIsWrongIsNamedAtOnce, before anything is started.
func TestEverySettingThatIsWrongIsNamedAtOnce(t *testing.T) {
	c := app.Config{
		Roles: []string{"king"}, Lanes: 65, OTLPEndpoint: "collector", RebuildRate: -1,
		TrustedProxies: []string{"10.0.0.0/8", "proxy.example"}, CORSOrigins: []string{"https://app.example/"},
	}
	err := c.Check()
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, name := range []string{
		`"king"`, "CAIRN_ERA", "CAIRN_LANES", "CAIRN_OTLP_ENDPOINT", "CAIRN_REBUILD_RATE", "CAIRN_TRUSTED_PROXIES", `"proxy.example"`, "CAIRN_CORS_ORIGINS",
	} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	right := app.Config{
		Roles: app.AllRoles(), Era: 1, OTLPEndpoint: "http://127.0.0.1:4318",
		TrustedProxies: []string{"10.0.0.7", "fd00::/8"}, CORSOrigins: []string{"*", "http://localhost:5173"},
	}
	if err := right.Check(); err != nil {
		t.Errorf("it is not taken: %v", err)
	}
}
