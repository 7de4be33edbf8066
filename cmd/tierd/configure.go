package main

import (
	"time"

	"github.com/alecthomas/kong"

	"github.com/tierd/tierd/internal/config"
)

type configGroup struct {
	Check configCheckCommand `cmd:"" help:"Check every setting of serve, without serving."`
	Show  configShowCommand  `cmd:"" help:"Print every setting as it is in force, and where it comes from."`
}

type configCheckCommand struct{ settingFlags }

func (*configCheckCommand) Help() string {
	return "Reads flags, environment and file as serve does, and names each fault with its place: the flag, the variable, or the line of the file. No tier is opened.\n\n" +
		examples("tierd config check --config tierd.yaml")
}

func (c *configCheckCommand) Run(p *process, kctx *kong.Context) error {
	loaded, err := p.loadConfig(given(kctx))
	if err != nil {
		return err
	}
	faults, warnings := config.Split(checkConfig(loaded, time.Now()))
	if p.json {
		err := p.printJSON(map[string]any{"ok": len(faults) == 0, "faults": orEmpty(faults), "warnings": orEmpty(warnings)})
		if err == nil && len(faults) > 0 {
			err = &configError{faults}
		}
		return err
	}
	for _, w := range warnings {
		p.notef("warning: %s", w)
	}
	if len(faults) > 0 {
		return &configError{faults}
	}
	return p.printf("the configuration is good\n")
}

type configShowCommand struct{ settingFlags }

func (*configShowCommand) Help() string {
	return "Credentials in URLs are replaced by ***.\n\n" + examples("TIERD_HOT_BYTES=1GiB tierd config show --config tierd.yaml")
}

func (c *configShowCommand) Run(p *process, kctx *kong.Context) error {
	loaded, err := p.loadConfig(given(kctx))
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"file": loaded.File, "settings": loaded.Show()})
	}
	var rows [][]string
	for _, v := range loaded.Show() {
		rows = append(rows, []string{v.Name, dash(v.Text), v.Source})
	}
	if err := p.table([]string{"SETTING", "VALUE", "SOURCE"}, rows); err != nil {
		return err
	}
	if len(loaded.Faults) > 0 {
		p.notef("some settings could not be read: tierd config check says which")
	}
	return nil
}
