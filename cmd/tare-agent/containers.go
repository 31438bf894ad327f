package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/wait"
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

func newCopyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "copy FILE",
		Short: "Copy this program to where another container sees it",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			return copyProgram(self, args[0])
		},
	}
}

// copyProgram makes a copy that all users can execute.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close(), os.Chmod(to, 0o755)); err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	return nil
}

func newAtCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "at TIME -- PROGRAM [ARGUMENT]…",
		Short: "Replace this process by another program at a time (RFC 3339), at once if it has passed",
		Long: `at waits for an instant of this machine's clock and then becomes the program. Load
workers in several pods begin together by it.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			instant, err := time.Parse(time.RFC3339Nano, args[0])
			if err != nil {
				return fmt.Errorf("at: %q is no time", args[0])
			}
			path, err := exec.LookPath(args[1])
			if err != nil {
				return fmt.Errorf("at: %w", err)
			}
			if err := wait.For(cmd.Context(), time.Until(instant)); err != nil {
				return err
			}
			if err := syscall.Exec(path, args[1:], os.Environ()); err != nil {
				return fmt.Errorf("at: become %s: %w", path, err)
			}
			return nil
		},
	}
}
