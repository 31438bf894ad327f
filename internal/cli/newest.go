package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/result"
)

// orNewest returns the named directories, without any the newest run. A command that is handed over gets its directory too.
func (c *CommandLine) orNewest(dirs []string) ([]string, error) {
	if len(dirs) > 0 {
		return dirs, nil
	}
	dir, err := c.newest()
	if err != nil {
		return nil, err
	}
	c.handOver.args = append(c.handOver.args, dir)
	return []string{dir}, nil
}

// newest returns the run in runs/ that began last, and prints its directory to standard error.
func (c *CommandLine) newest() (string, error) {
	plans, err := filepath.Glob(filepath.Join(result.RunsDir, "*", result.PlanFile))
	if err != nil {
		return "", fmt.Errorf("search for the newest run: %w", err)
	}
	newest, began := "", time.Time{}
	for _, file := range plans {
		if at, err := os.Stat(file); err == nil && !at.ModTime().Before(began) { // the plan is written once
			newest, began = filepath.Dir(file), at.ModTime()
		}
	}
	if newest == "" {
		return "", hint.Usage(errors.New("no directory is named, and runs/ has no run"), "name the directory that tare run printed")
	}
	c.Notef("newest run: %s", newest)
	return newest, nil
}
