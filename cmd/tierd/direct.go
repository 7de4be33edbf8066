package main

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/config"
)

// tierFlags name the tiers of a command that opens them itself.
type tierFlags struct {
	Data   string `group:"direct" placeholder:"DIR" help:"Folder of the embedded tiers ($TIERD_DATA); no daemon may be using it."`
	Config string `group:"direct" placeholder:"FILE" help:"Open the tiers that this YAML file names, as serve does ($TIERD_CONFIG)."`
	Warm   string `group:"tiers" placeholder:"sqlite:" help:"${warm} ($TIERD_WARM)."`
	Cold   string `group:"tiers" placeholder:"dir:" help:"${cold} ($TIERD_COLD)."`
	Backup string `group:"tiers" placeholder:"dir:" help:"The second copy of cold, as cold ($TIERD_BACKUP)."`
}

// direct reads the settings that the tiers are opened by.
func (p *process) direct(kctx *kong.Context) (tierd.Config, error) {
	loaded, err := p.loadChecked(given(kctx), (*config.Loaded).Check)
	if err != nil {
		return tierd.Config{}, err
	}
	return p.tiersOf(loaded), nil
}

// tiersOf names the warm and cold tiers of settings.
func (p *process) tiersOf(loaded *config.Loaded) tierd.Config {
	return tierd.Config{
		Data: loaded.Data, Warm: loaded.Given("warm"), Cold: loaded.Given("cold"), Backup: loaded.Given("backup"), Logger: p.logger(loaded),
	}
}

// inUse advises on a data folder that a daemon uses.
func inUse(err error, c tierd.Config) error {
	if errors.Is(err, tierd.ErrInUse) {
		return &advisedError{err, fmt.Sprintf("a daemon uses %s: stop it first", c.Data)}
	}
	return err
}
