package main

import (
	"context"

	"github.com/tierd/tierd/tiering"
)

type nsGroup struct {
	Ls  nsLsCommand  `cmd:"" help:"List namespaces."`
	Get nsGetCommand `cmd:"" help:"Print the policy of a namespace as it is in force."`
	Set nsSetCommand `cmd:"" help:"Create a namespace or change its policy."`
	Rm  nsRmCommand  `cmd:"" help:"Delete an empty namespace; its name and class stay taken."`
}

type nsLsCommand struct{ connectFlags }

func (*nsLsCommand) Help() string { return examples("tierd ns ls") }

func (c *nsLsCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	all, err := service.Namespaces(ctx)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"items": orEmpty(all)})
	}
	var rows [][]string
	for _, n := range all {
		rows = append(rows, []string{n.Name, string(n.Kind), string(n.Class), life(n.TTL), n.DemoteAfter.String(), itoa(n.KeepVersions), n.KeepFor.String(), itoa(n.Version)})
	}
	return p.table([]string{"NAME", "KIND", "CLASS", "TTL", "DEMOTE", "KEEP", "KEEP FOR", "VERSION"}, rows)
}

func life(d tiering.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.String()
}

// orEmpty makes an absent list an empty one in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type nsGetCommand struct {
	NS nsArg `arg:"" name:"ns" help:"The namespace."`
	connectFlags
}

func (*nsGetCommand) Help() string { return examples("tierd ns get sessions") }

func (c *nsGetCommand) Run(ctx context.Context, p *process) error {
	service, err := c.dial(p)
	if err != nil {
		return err
	}
	info, err := service.Namespace(ctx, string(c.NS))
	if err != nil {
		return err
	}
	return p.printNamespace(info)
}

func (p *process) printNamespace(info *tiering.NamespaceInfo) error {
	return encodeJSON(p.stdout, info, !p.json)
}

type nsSetCommand struct {
	NS     nsArg  `arg:"" name:"ns" help:"The namespace."`
	Policy string `arg:"" name:"json" help:"The policy, a JSON object; - for standard input."`
	Merge  bool   `help:"Change only the fields that are named; null takes one back to its default."`
	changeFlags
}

func (*nsSetCommand) Help() string {
	return "What tierd ns get prints may be edited and given back.\n\n" +
		examples(`tierd ns set sessions '{"class":"session","ttl":"2h"}'`, `tierd ns set agents --merge '{"demote_after":"7d"}'`)
}

func (c *nsSetCommand) Run(ctx context.Context, p *process) error {
	raw, err := p.inline(c.Policy)
	if err != nil {
		return err
	}
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	var info *tiering.NamespaceInfo
	if c.Merge {
		info, err = service.PatchNamespace(ctx, string(c.NS), raw, &o)
	} else {
		// The name and version that ns get prints beside the policy are let
		// through; other unknown fields are not.
		var given tiering.NamespaceInfo
		if err := decodeStrict(raw, &given); err != nil {
			return usagef("the policy cannot be read: %v", err)
		}
		info, err = service.SetNamespace(ctx, string(c.NS), given.Policy, &o)
	}
	if err != nil {
		return err
	}
	return p.printNamespace(info)
}

type nsRmCommand struct {
	NS nsArg `arg:"" name:"ns" help:"The namespace."`
	changeFlags
}

func (*nsRmCommand) Help() string { return examples("tierd ns rm scratch") }

func (c *nsRmCommand) Run(ctx context.Context, p *process) error {
	service, o, err := c.begin(p)
	if err != nil {
		return err
	}
	if err := service.DeleteNamespace(ctx, string(c.NS), &o); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]string{"deleted": string(c.NS)})
	}
	return p.printf("deleted namespace %s\n", c.NS)
}
