package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd/client"
	"github.com/tierd/tierd/internal/config"
	"github.com/tierd/tierd/tiering"
)

type keysGroup struct {
	Create keysCreateCommand `cmd:"" help:"Make an API key and print its secret, once."`
	Ls     keysLsCommand     `cmd:"" help:"List API keys and what each may do."`
	Revoke keysRevokeCommand `cmd:"" help:"Revoke an API key."`
}

// keyStoreFlags reach the keys through a daemon, or in the store itself when no
// daemon runs: that is how the first key of a daemon that requires keys is made.
type keyStoreFlags struct {
	Data   string `group:"direct" placeholder:"DIR" help:"Open this data folder itself, under its lock; no daemon may be using it."`
	Config string `group:"direct" placeholder:"FILE" help:"Open the tiers that this YAML file names, as serve does."`
	Direct bool   `group:"direct" help:"Open the tiers that TIERD_HOT, TIERD_WARM and the other variables of serve name, also beside daemons that share them."`
	Tenant string `group:"direct" placeholder:"NAME" help:"The tenant whose keys are meant, with --data, --config or --direct; the default tenant without it."`
	connectFlags
}

// opens reports whether the store itself is meant, and no daemon.
func (f keyStoreFlags) opens() bool { return f.Data != "" || f.Config != "" || f.Direct }

const bootstrapHelp = "A daemon started with --require-keys refuses requests without a key. Make its first key with --data, --config or --direct: " +
	"the store is then opened directly, and TIERD_WARM and the other variables of serve hold too; an embedded store can be opened while no daemon uses it, one in PostgreSQL at any time. " +
	"Each tenant is made by its first key, with --tenant; through a daemon a key makes others of its own tenant only. " +
	"A daemon without --require-keys looks at no key."

// use calls fn with the key administration, and closes it afterwards.
func (f keyStoreFlags) use(ctx context.Context, p *process, kctx *kong.Context, fn func(tiering.APIKeys) error) error {
	if !f.opens() {
		if f.Tenant != "" {
			return usagef("--tenant goes with --data, --config or --direct: a daemon takes the tenant from the API key")
		}
		service, err := f.dial(p)
		if err != nil {
			return err
		}
		return fn(service)
	}
	if f.Tenant != "" {
		if err := tiering.ValidateTenant(f.Tenant); err != nil {
			return usagef("--tenant: %v", detailOf(err))
		}
	}
	// Whether the daemon may listen where it is told to does not matter here.
	loaded, err := p.loadChecked(given(kctx), (*config.Loaded).Check)
	if err != nil {
		return err
	}
	node, err := p.openNode(ctx, loaded, p.logger(loaded), nil)
	if err != nil {
		return err
	}
	var keys tiering.APIKeys = node
	if f.Tenant != "" {
		keys = node.As(tiering.Principal{Tenant: f.Tenant})
	}
	return errors.Join(fn(keys), closeNode(node))
}

type keysCreateCommand struct {
	Name       string   `placeholder:"TEXT" help:"What the key is for."`
	Verbs      []string `placeholder:"VERB" help:"read, write, delete, admin; all without it."`
	Namespaces []string `placeholder:"NS" help:"Namespaces it may use; all without it."`
	Prefixes   []string `placeholder:"TEXT" help:"Beginnings of the ids it may use; all without it."`
	User       string   `placeholder:"NAME" help:"Sees and makes this user's documents only."`
	keyStoreFlags
}

func (*keysCreateCommand) Help() string {
	return bootstrapHelp + " The secret alone goes to standard output, so that it can be kept in a file for --api-key-file.\n\n" +
		examples("(umask 077; tierd keys create --data ./tierd-data --name admin > admin.key)", "tierd keys create --data ./tierd-data --tenant acme --name acme-admin", "tierd keys create --name dashboard --verbs read --namespaces agents,sessions")
}

func (c *keysCreateCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	if err := c.checkLimits(given(kctx)); err != nil {
		return err
	}
	key := tiering.APIKey{Name: c.Name, Scope: tiering.Scope{Namespaces: c.Namespaces, Prefixes: c.Prefixes, User: c.User}}
	for _, v := range c.Verbs {
		key.Scope.Verbs = append(key.Scope.Verbs, tiering.Verb(v))
	}
	return c.use(ctx, p, kctx, func(keys tiering.APIKeys) error {
		made, err := keys.CreateKey(ctx, key)
		if err != nil {
			return err
		}
		if p.json {
			return p.printJSON(made)
		}
		p.notef("key %s made; its secret is shown this once and cannot be had again", made.ID)
		if c.open(ctx, p) {
			p.notef("this daemon serves everyone without a key: keys count only when it is started with --require-keys")
		}
		return p.printf("%s\n", made.Secret)
	})
}

// checkLimits refuses a limit that was given and is empty: an empty list means
// no limit, the opposite of what an unset variable of a script was to say.
func (c *keysCreateCommand) checkLimits(given map[string]string) error {
	for _, limit := range []struct {
		name string
		list []string
	}{
		{"verbs", c.Verbs}, {"namespaces", c.Namespaces}, {"prefixes", c.Prefixes}, {"user", []string{c.User}},
	} {
		if _, ok := given[limit.name]; ok && (len(limit.list) == 0 || slices.Contains(limit.list, "")) {
			return usagef("--%s: there is nothing between the commas or behind it: name what the key is limited to, or leave the flag away for no limit", limit.name)
		}
	}
	return nil
}

// open reports whether the daemon, if there is one, answers without a key.
func (c *keysCreateCommand) open(ctx context.Context, p *process) bool {
	if c.opens() {
		return false
	}
	nobody, err := client.New(p.url, nil)
	if err != nil {
		return false
	}
	_, err = nobody.Namespaces(ctx)
	return err == nil
}

type keysLsCommand struct{ keyStoreFlags }

func (*keysLsCommand) Help() string { return examples("tierd keys ls") }

func (c *keysLsCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	return c.use(ctx, p, kctx, func(keys tiering.APIKeys) error {
		all, err := keys.APIKeys(ctx)
		if err != nil {
			return err
		}
		if p.json {
			return p.printJSON(map[string]any{"items": orEmpty(all)})
		}
		var rows [][]string
		for _, k := range all {
			rows = append(rows, []string{k.ID, dash(k.Name), limits(k.Scope.Verbs), limits(k.Scope.Namespaces), limits(k.Scope.Prefixes), limits([]string{k.Scope.User}), stamp(k.CreatedAt), stamp(k.ExpiresAt)})
		}
		return p.table([]string{"ID", "NAME", "VERBS", "NAMESPACES", "PREFIXES", "USER", "CREATED", "EXPIRES"}, rows)
	})
}

// limits writes a list of a scope; an empty one is no limit.
func limits[T ~string](list []T) string {
	var words []string
	for _, w := range list {
		if w != "" {
			words = append(words, string(w))
		}
	}
	if words == nil {
		return "all"
	}
	return strings.Join(words, ",")
}

type keysRevokeCommand struct {
	ID string `arg:"" name:"id" help:"The key's id, as tierd keys ls prints it."`
	keyStoreFlags
}

func (*keysRevokeCommand) Help() string { return examples("tierd keys revoke b5x2v7qk4m") }

func (c *keysRevokeCommand) Run(ctx context.Context, p *process, kctx *kong.Context) error {
	return c.use(ctx, p, kctx, func(keys tiering.APIKeys) error {
		if err := keys.RevokeKey(ctx, c.ID); err != nil {
			return err
		}
		if p.json {
			return p.printJSON(map[string]string{"revoked": c.ID})
		}
		return p.printf("revoked key %s\n", c.ID)
	})
}
