package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// searched is the max number of bytes read from a file: configurations are small,
// and programs are recognized by their names.
const searched = 1 << 20

func newFilesCommand() *cobra.Command {
	var holding string
	cmd := &cobra.Command{
		Use:   "files DIR",
		Short: "List the files of a directory whose name or content contains a text",
		Long: `files looks at the files of one directory, not of those below it, and prints the path of
each whose name or whose first MiB holds a text. The last line is "looked".`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := filesHolding(args[0], holding)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(append(all, "looked"), "\n"))
			return err
		},
	}
	cmd.Flags().StringVar(&holding, "holding", "", "the `text`")
	_ = cmd.MarkFlagRequired("holding")
	return cmd
}

func filesHolding(dir, text string) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the files: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		has, err := holds(path, text)
		if err != nil {
			return nil, fmt.Errorf("look at the files: %w", err)
		}
		if has {
			all = append(all, path)
		}
	}
	return all, nil
}

func holds(path, text string) (bool, error) {
	if strings.Contains(filepath.Base(path), text) {
		return true, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, searched))
	return bytes.Contains(content, []byte(text)), err
}
