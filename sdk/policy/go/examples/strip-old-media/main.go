// Command strip-old-media is an example policy: it removes images, audio, documents and files from older turns, because
// they cost far more than the texts, which it keeps.
package main

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

var _ = mneme.Register(stripOldMedia)

const media = mneme.ImageParts | mneme.AudioParts | mneme.DocumentParts

// stripOldMedia strips the messages of all turns but the newest ones. A turn's place says how old it is, even if turns
// were rewound.
func stripOldMedia(req *mneme.Request, plan *mneme.Plan) error {
	newest := uint32(0)
	for i := range req.Len() {
		newest = max(newest, req.Record(i).Place)
	}
	turns := uint32(req.ConfigInt("turns", 2))
	why := plan.Text("old_media: from before the newest ").Uint(uint64(turns)).Str(" turns")
	for i := range req.Len() {
		r := req.Record(i)
		if r.Flags.Has(mneme.Image|mneme.Audio|mneme.Document) && !r.Flags.Has(mneme.Mandatory|mneme.Pinned) &&
			r.Place+turns <= newest {
			plan.Strip(i, i, media, why)
		}
	}
	return nil
}

func main() {}
