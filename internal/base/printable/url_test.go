package printable

import (
	"strings"
	"testing"
)

func TestURLWithoutPassword(t *testing.T) {
	for raw, want := range map[string]string{
		"http://u:S3CRET x@h/":     `URL "http://xxxxx@h/": the part before @ is not of the form user:password`,
		"http://u:S3CRET/x@h/":     `URL "http://xxxxx@h/": the part before @ is not of the form user:password`,
		"http://u:S3CRET#x@h:80/a": `URL "http://xxxxx@h:80/a": the part before @ is not of the form user:password`,
		"http://u:S3CRET%zz@h/":    `URL "http://xxxxx@h/": the part before @ is not of the form user:password`,
		"http://h:bad/":            `URL "http://h:bad/": invalid port ":bad" after host`,
	} {
		if _, err := ParseURL(raw); err == nil || err.Error() != want || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
	if u, err := ParseURL("http://h/@me?a=b"); err != nil || u.Path != "/@me" {
		t.Errorf("%v, %v", u, err)
	}
	if got := URL("ftp://u:S3CRET@h"); got != "ftp://xxxxx@h" {
		t.Error(got)
	}
}

func TestTextWithoutPasswords(t *testing.T) {
	arguments := []string{"weigh", "http://u:S3 CRET@h/", `--url=http://u:S"3@h`, "image@sha256:12", "//u:S4@h"}
	text := `start u:S3 CRET@h: exec "http://u:S3 CRET@h/", "http://u:S\"3@h", image@sha256:12, //u:S4@h`
	want := `start xxxxx@h: exec "http://xxxxx@h/", "http://xxxxx@h", image@sha256:12, //xxxxx@h`
	if got := WithoutPasswords(text, arguments); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
