// Package schema reads the migrations of a driver of warm from the files in its binary.
package schema

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
)

// Step is one migration, with its way back.
type Step struct{ Up, Down string }

// Steps returns the migrations in dir of files in order, the first of which makes
// version 1: NUMBER_name.up.sql and NUMBER_name.down.sql, numbered from 1 without gaps.
func Steps(files fs.FS, dir string) ([]Step, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.up.sql"))
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	var out []Step
	for i, name := range names {
		digits, _, _ := strings.Cut(path.Base(name), "_")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n != int64(i+1) {
			return nil, fmt.Errorf("migration %s: want number %d", name, i+1)
		}
		up, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		down, err := fs.ReadFile(files, strings.TrimSuffix(name, ".up.sql")+".down.sql")
		if err != nil {
			return nil, err
		}
		out = append(out, Step{Up: string(up), Down: string(down)})
	}
	return out, nil
}

// Newer is the error of a database whose version is above what this binary knows.
func Newer(have int64, known int) error {
	return fmt.Errorf("the schema is version %d and this binary knows up to %d: use a newer tierd", have, known)
}
