package experiment

import "regexp"

// digestForm is what the digest of an image looks like.
const digestForm = `^sha256:[0-9a-f]{64}$`

var digestPattern = regexp.MustCompile(digestForm)

// digests checks the digests that images are held to. Their names have dots, so that none of them is a path.
func (v validation) digests() {
	for _, image := range sortedKeys(v.e.Platform.Digests) {
		if digest := v.e.Platform.Digests[image]; !digestPattern.MatchString(digest) {
			v.report("platform.digests", "write it as sha256:… with 64 hexadecimal digits, as a trial's provenance/images.yaml has it",
				"%q, said of image %s, is no digest", clip(digest), clip(image))
		}
	}
}
