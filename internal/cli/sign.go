package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aead.dev/minisign"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
)

type signOptions struct {
	key      string // file of the private key
	password string // file of its password
	meshes   []string
}

func newSignCommand(c *CommandLine) *cobra.Command {
	var o signOptions
	cmd := &cobra.Command{
		Use:   "sign DIR…",
		Short: "Sign results directories for publication",
		Long: `sign verifies results directories, as ` + "`tare verify`" + ` does, and signs the manifest of
each with a key of minisign. The manifest has the SHA-256 of every file, so that
the signature covers the whole directory. A directory with a problem is not signed.

Keys are made by minisign: ` + "`minisign -G -p results.pub -s results.key`" + `. The password of
an encrypted key is prompted for on the terminal, or read from --password-file.
The signature is in manifest.json.minisig. ` + "`minisign -Vm manifest.json -p results.pub`" + `
checks the manifest, and ` + "`tare verify --key results.pub`" + ` the whole directory.

Exit codes: 0 signed; 4 a problem was found; 1 a directory or the key cannot be used.`,
		Example: `  tare sign runs/mine --key results.key
  tare verify runs/mine --key results.pub`,
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(_ *cobra.Command, args []string) error { return signer{c}.sign(args, o) },
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "`file` of the private key")
	f.StringVar(&o.password, "password-file", "", "`file` with the password of the key in its first line")
	f.StringArrayVar(&o.meshes, "mesh", nil, "add a mesh definition from a `file` that the experiment names; may be repeated")
	for _, name := range []string{"key", "password-file", "mesh"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

type signer struct{ *CommandLine }

func (c signer) sign(dirs []string, o signOptions) error {
	if o.key == "" {
		return hint.Usage(errors.New("--key is missing"), "`minisign -G -p results.pub -s results.key` makes a pair of keys")
	}
	key, err := c.privateKey(o)
	if err != nil {
		return err
	}
	// Twice: sealing would hide a change, and what is signed is what was verified.
	if _, err := c.faultless(dirs, o.meshes); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := result.Seal(dir); err != nil {
			return err
		}
	}
	all, err := c.faultless(dirs, o.meshes)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, r := range all {
		if err := signManifest(r.Dir, key); err != nil {
			return err
		}
		rows = append(rows, []string{r.Dir, fmt.Sprintf("%d of %d", r.Recorded, r.Planned), fmt.Sprint(r.Files), verify.KeyID(key.ID()), result.SignatureFile})
	}
	if err := c.Table([]string{"DIRECTORY", "TRIALS", "DIGESTS", "KEY", "SIGNATURE"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "\npublic key: %s\n", key.Public().(minisign.PublicKey))
	return nil
}

// faultless verifies directories, and prints the problems of those that cannot be signed.
func (c signer) faultless(dirs, meshes []string) ([]*verify.Result, error) {
	all, err := c.verify(dirs, meshes, nil)
	if err != nil {
		return nil, err
	}
	if bad := verified(all); bad != nil {
		return nil, errors.Join(writeVerified(c.Out, all), fmt.Errorf("nothing is signed: %w", bad))
	}
	return all, nil
}

func signManifest(dir string, key minisign.PrivateKey) error {
	manifest, err := regular.ReadFile(filepath.Join(dir, result.ManifestFile), verify.MaxManifest)
	if err != nil {
		return fmt.Errorf("sign %s: %w", dir, err)
	}
	signature, err := verify.Sign(manifest, key, time.Now())
	if err != nil {
		return fmt.Errorf("sign %s: %w", dir, err)
	}
	return result.Add(dir, result.SignatureFile, signature)
}

// maxKey bounds the file of a key or of a password in bytes.
const maxKey = 16 << 10

func (c signer) privateKey(o signOptions) (key minisign.PrivateKey, err error) {
	text, err := regular.ReadFile(o.key, maxKey)
	if err != nil {
		return key, fmt.Errorf("read the private key: %w", err)
	}
	if key, err = verify.PrivateKey(text, func() (string, error) { return c.password(o) }); err != nil {
		return key, fmt.Errorf("read the private key %s: %w", o.key, err)
	}
	return key, nil
}

// password reads the password of a key from its file, or from the terminal without echo.
func (c signer) password(o signOptions) (string, error) {
	if o.password != "" {
		text, err := regular.ReadInput(o.password, maxKey)
		line, _, _ := strings.Cut(string(text), "\n")
		return strings.TrimSuffix(line, "\r"), err
	}
	in, ok := c.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", hint.Usage(errors.New("the key has a password, and there is no terminal to type it"), "add --password-file")
	}
	fmt.Fprintf(c.Err, "password of %s: ", o.key)
	secret, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(c.Err)
	return string(secret), err
}

// publicKey reads --key of `tare verify`: a file, or the key itself.
func publicKey(flag string) (*minisign.PublicKey, error) {
	if flag == "" {
		return nil, nil
	}
	if key, err := verify.PublicKey([]byte(flag)); err == nil {
		return key, nil
	}
	text, err := regular.ReadFile(flag, maxKey)
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	key, err := verify.PublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("read the public key %s: %w", flag, err)
	}
	return key, nil
}
