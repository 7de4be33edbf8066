package main

import (
	"context"
	"time"

	"github.com/tierd/tierd/client"
)

type healthCommand struct{ connectFlags }

func (*healthCommand) Help() string {
	return "Exits with 0 when the daemon can serve and with 5 when it cannot, saying why: what a container or a load balancer asks. " +
		"It asks once, waits at most 5 s, and needs no API key.\n\n" +
		examples("tierd health")
}

func (c *healthCommand) Run(ctx context.Context, p *process) error {
	daemon, err := c.dialWith(p, client.Options{Timeout: 5 * time.Second, Retry: client.Retry{Attempts: 1}})
	if err != nil {
		return err
	}
	if err := daemon.Ready(ctx); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]string{"status": "ready"})
	}
	return p.printf("ready\n")
}
