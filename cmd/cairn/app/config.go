package app

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/handlers/rest"
)

// Config is how a process is set up. Every field is a flag and an environment variable of the same name;
// `cairn config` lists them with their values.
type Config struct {
	Listen string `help:"Address of the HTTP server." default:"127.0.0.1:8700" env:"CAIRN_LISTEN"`
	// AdminListen is apart from Listen: what it serves needs no token.
	AdminListen string `help:"Private address of metrics, profiles and health, for operators only. Empty: none." default:"127.0.0.1:8701" env:"CAIRN_ADMIN_LISTEN"`
	Data        string `help:"Data directory of the embedded broker and database." default:".cairn" env:"CAIRN_DATA" type:"path"`

	Brokers     []string `help:"Kafka brokers (host:port,…). Empty: the embedded broker." env:"CAIRN_BROKERS"`
	LiveBrokers []string `help:"Brokers of the ephemeral topics. Empty: the same." env:"CAIRN_LIVE_BROKERS"`
	Partitions  int32    `help:"Partitions of the log. 0: 1 embedded, 32 on Kafka." env:"CAIRN_PARTITIONS"`
	Replication int16    `help:"Replication of the topics on Kafka." default:"3" env:"CAIRN_REPLICATION"`
	Era         int      `help:"Era of the log." default:"1" env:"CAIRN_ERA"`
	TopicPrefix string   `help:"What topic names begin with." default:"cairn" env:"CAIRN_TOPIC_PREFIX"`
	TopicsFile  string   `help:"JSON file with any of prefix, partitions, era, replication, in_sync; it goes over the settings above." env:"CAIRN_TOPICS_FILE" type:"path"`
	NoSync      bool     `help:"Embedded broker: do not sync writes to disk. A power loss then loses acknowledged work." env:"CAIRN_NO_SYNC"`

	DatabaseURL string `help:"Postgres database of the read models. Empty: the embedded one." env:"CAIRN_DATABASE_URL"`
	VaultURL    string `help:"Postgres database of the vault. Empty: the embedded one." env:"CAIRN_VAULT_URL"`

	MasterKey     string `help:"Master key, 64 hex digits. It wraps every data key." env:"CAIRN_MASTER_KEY"`
	MasterKeyFile string `help:"File with the master key. Default: master.key in the data directory, made at the first start." env:"CAIRN_MASTER_KEY_FILE" type:"path"`

	ModelURL       string `help:"Base URL of an OpenAI-compatible server, such as https://api.openai.com/v1. Empty: the built-in offline model." env:"CAIRN_MODEL_URL"`
	ModelKey       string `help:"Its API key." env:"CAIRN_MODEL_KEY"`
	Model          string `help:"Model of the agents." default:"gpt-4.1-mini" env:"CAIRN_MODEL"`
	RouterModel    string `help:"Model that picks the agent. Empty: the agents' model." env:"CAIRN_ROUTER_MODEL"`
	EmbeddingModel string `help:"Embedding model with 1536 dimensions. Empty: the built-in offline embedder." env:"CAIRN_EMBEDDING_MODEL"`

	LogLevel  string `help:"debug, info, warn or error." default:"info" enum:"debug,info,warn,error" env:"CAIRN_LOG_LEVEL"`
	LogFormat string `help:"text or json." default:"text" enum:"text,json" env:"CAIRN_LOG_FORMAT"`

	OTLPEndpoint string `name:"otlp-endpoint" help:"Collector that takes traces (OTLP over HTTP), such as http://127.0.0.1:4318. Empty: nothing is traced." env:"CAIRN_OTLP_ENDPOINT"`

	// MinFree is how much disk space commands need.
	MinFree uint64 `help:"Refuse commands when the data directory's disk has fewer free bytes." default:"1073741824" env:"CAIRN_MIN_FREE"`

	// Lanes is in how many lanes projectors apply a partition.
	Lanes int `help:"Lanes in which read models are fed from each partition. 0: 2 where the log has one partition, else 1. A change takes effect when no other process feeds them." env:"CAIRN_LANES"`

	// CommandRate bounds what one user may send, over HTTP and over sockets each.
	CommandRate  float64 `help:"Requests a second that one user may send." default:"20" env:"CAIRN_COMMAND_RATE"`
	CommandBurst int     `help:"Requests that one user may send at once." default:"40" env:"CAIRN_COMMAND_BURST"`

	// TrustedProxies are whose word on the caller's address counts; sessions are limited by it.
	TrustedProxies []string `help:"Addresses and prefixes (10.0.0.0/8,…) of proxies whose X-Forwarded-For counts. Empty: nobody's." env:"CAIRN_TRUSTED_PROXIES"`
	CORSOrigins    []string `help:"Origins whose pages may call the HTTP interface (https://app.example,…), * for all. Empty: none." env:"CAIRN_CORS_ORIGINS"`

	// CatchupMax bounds what a reader that was away for long makes the database read.
	CatchupMax uint64 `help:"How many events behind a reader of an account's events may be to go on from where it is; it is told to begin anew otherwise. 0: any number." default:"0" env:"CAIRN_CATCHUP_MAX"`

	RebuildRate int    `help:"Events a second by which read models are rebuilt in the background; 0: as fast as it goes." default:"20000" env:"CAIRN_REBUILD_RATE"`
	RebuildSwap string `help:"Whether what was rebuilt in the background and verified is read by itself: auto, or manual." default:"auto" enum:"auto,manual" env:"CAIRN_REBUILD_SWAP"`

	Roles []string `kong:"-"`
	// Now is the clock; nil is the system's.
	Now func() time.Time `kong:"-"`
	// LogHooks see what the log's clients do; benchmarks learn from them when something was committed.
	LogHooks []kgo.Hook `kong:"-"`
}

// The roles of a process.
const (
	RoleAPI       = "api"
	RoleWriter    = "writer"
	RoleProjector = "projector"
	RoleGateway   = "gateway"
	RoleEffects   = "effects"
	RolePolicies  = "policies"
	RolePublisher = "publisher"
)

// AllRoles is what `cairn dev` plays.
func AllRoles() []string {
	return []string{RoleAPI, RoleWriter, RoleProjector, RoleGateway, RoleEffects, RolePolicies, RolePublisher}
}

func (c Config) has(role string) bool { return slices.Contains(c.Roles, role) }

func (c Config) now() func() time.Time {
	if c.Now == nil {
		return time.Now
	}
	return c.Now
}

// Embedded reports whether the process brings its own broker.
func (c Config) Embedded() bool { return len(c.Brokers) == 0 }

// Check names everything that is wrong at once.
func (c Config) Check() error {
	var errs []error
	for _, role := range c.Roles {
		if !slices.Contains(AllRoles(), role) {
			errs = append(errs, fmt.Errorf("there is no role %q; the roles are %s", role, strings.Join(AllRoles(), ", ")))
		}
	}
	if (c.DatabaseURL == "") != (c.VaultURL == "") {
		errs = append(errs, errors.New("set both CAIRN_DATABASE_URL and CAIRN_VAULT_URL, or neither"))
	}
	if !c.Embedded() && c.DatabaseURL == "" {
		errs = append(errs, errors.New("CAIRN_BROKERS without CAIRN_DATABASE_URL: the embedded database goes only with the embedded broker"))
	}
	if c.Era < 1 {
		errs = append(errs, errors.New("CAIRN_ERA must be 1 or more"))
	}
	if c.Lanes < 0 || c.Lanes > 64 {
		errs = append(errs, errors.New("CAIRN_LANES must be from 0 to 64"))
	}
	if err := CheckPrefix(c.TopicPrefix); err != nil {
		errs = append(errs, fmt.Errorf("CAIRN_TOPIC_PREFIX: %w", err))
	}
	if c.OTLPEndpoint != "" {
		_, err := tracesURL(c.OTLPEndpoint)
		errs = append(errs, err)
	}
	if c.RebuildRate < 0 {
		errs = append(errs, errors.New("CAIRN_REBUILD_RATE must be 0 or more"))
	}
	if err := rest.CheckProxies(c.TrustedProxies); err != nil {
		errs = append(errs, fmt.Errorf("CAIRN_TRUSTED_PROXIES: %w", err))
	}
	if err := rest.CheckOrigins(c.CORSOrigins); err != nil {
		errs = append(errs, fmt.Errorf("CAIRN_CORS_ORIGINS: %w", err))
	}
	if c.ModelURL != "" && c.Model == "" {
		errs = append(errs, errors.New("CAIRN_MODEL_URL without CAIRN_MODEL"))
	}
	return errors.Join(errs...)
}

var prefixes = regexp.MustCompile(`^[a-zA-Z0-9._-]{0,100}$`)

// CheckPrefix refuses what no topic's name may begin with. Empty is the default.
func CheckPrefix(prefix string) error {
	if !prefixes.MatchString(prefix) {
		return fmt.Errorf("topic names can't begin with %q: letters, digits, '.', '_' and '-' are allowed, 100 at most", prefix)
	}
	return nil
}

// master reads the master key. In an embedded set-up that has no vault yet the key is made; a vault
// without its key is refused, since nothing in it could be opened.
func (c Config) master(vaultExists bool) ([]byte, error) {
	if c.MasterKey != "" {
		return parseMaster(c.MasterKey, "CAIRN_MASTER_KEY")
	}
	path := c.MasterKeyFile
	if path == "" {
		if !c.Embedded() {
			return nil, errors.New("no master key: set CAIRN_MASTER_KEY or CAIRN_MASTER_KEY_FILE (64 hex digits, `openssl rand -hex 32`)")
		}
		path = filepath.Join(c.Data, "master.key")
	}
	text, err := os.ReadFile(path)
	if err == nil {
		return parseMaster(strings.TrimSpace(string(text)), path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	if vaultExists {
		return nil, fmt.Errorf("the master key %s is missing, and there is sealed data that only it opens: bring the file back from its backup (or set CAIRN_MASTER_KEY)", path)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a master key: %w", err)
	}
	if err := store(path, hex.EncodeToString(key)+"\n"); err != nil {
		return nil, fmt.Errorf("store the master key: %w", err)
	}
	return key, nil
}

// store leaves a whole file that outlives a power cut, or none: what is sealed next is on the disk before anybody
// could look for the key again.
func store(path, text string) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func parseMaster(text, where string) ([]byte, error) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("the master key in %s is not 64 hex digits", where)
	}
	return key, nil
}
