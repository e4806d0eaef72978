package plan

import "slices"

// Hook is a moment at which policies decide, as in the ABI.
type Hook uint32

const (
	HookAssemble Hook = 1 // what a window shows
	HookAdmit    Hook = 2 // whether and how a memory is written
	HookRemember Hook = 3 // what is remembered of a session
	HookRecall   Hook = 4 // which memories a query finds
	HookRetain   Hook = 5 // which memories are kept
)

// hookNames are the names of hooks in manifests and settings, by number.
var hookNames = []string{"", "assemble", "admit", "remember", "recall", "retain"}

// Hooks lists all hooks.
func Hooks() []Hook { return []Hook{HookAssemble, HookAdmit, HookRemember, HookRecall, HookRetain} }

// String returns the name of a hook; 0 is assemble.
func (h Hook) String() string { return hookNames[h.orAssemble()] }

// HookNamed returns the hook with a name, or false.
func HookNamed(name string) (Hook, bool) {
	at := slices.Index(hookNames, name)
	return Hook(max(at, 0)), at > 0
}

func (h Hook) orAssemble() Hook {
	if h == 0 || int(h) >= len(hookNames) {
		return HookAssemble
	}
	return h
}

// Assembles reports whether the hook is assemble, whose plans change a window. The plans of all others change memories.
func (h Hook) Assembles() bool { return h.orAssemble() == HookAssemble }

// Has reports whether a policy's manifest declares a hook.
func (p *Policy) Has(h Hook) bool { return slices.Contains(p.Manifest.Hooks, h.String()) }

// Origin says who writes a memory, as in the ABI.
type Origin uint32

const (
	OriginAPI      Origin = 1
	OriginTool     Origin = 2
	OriginFile     Origin = 3
	OriginRemember Origin = 4
)

// Trust orders memories and messages by how far their words can be trusted, as in the ABI. 0 means unknown.
type Trust uint8

const (
	TrustTool     Trust = 1
	TrustModel    Trust = 2
	TrustUser     Trust = 3
	TrustOperator Trust = 4
)

// ExtraFlags are properties of a record of a memory hook, as in the ABI.
type ExtraFlags uint16

const (
	ExtraCandidateKey ExtraFlags = 1   // it has the candidate's key
	ExtraPinnedMemory ExtraFlags = 2   // no policy may change it
	ExtraEqual        ExtraFlags = 4   // it says the same as the candidate
	ExtraCovers       ExtraFlags = 8   // it says what the candidate says, and more
	ExtraCovered      ExtraFlags = 16  // the candidate says what it says, and more
	ExtraEqualDigits  ExtraFlags = 32  // equal but for digits
	ExtraShown        ExtraFlags = 64  // a window of this session showed it
	ExtraClientKey    ExtraFlags = 128 // the client chose the key
	ExtraPasted       ExtraFlags = 256 // the message has pasted parts
)

// Extra is what a policy of a memory hook learns about a record besides Record. Strings are ids into Request.Strings.
type Extra struct {
	Occurred     int64 // ms since 1970, like all times; 0 means none
	Expires      int64
	LastRecalled int64
	Key          uint32 // string id; 0 for messages
	Namespace    uint32 // string id of the namespace as JSON
	Score        uint32 // 0 to MaxScore
	Recalls      uint32 // on how many of the last 90 days it was recalled
	Version      uint32 // of the memory; 0 for a candidate
	Session      uint32 // string id; 0 means none
	Group        uint32 // in retain, memories that are alike have the same number; 0 means none
	Importance   float32
	Flags        ExtraFlags
	Category     uint8 // 0 none, 1 core, 2 daily, 3 conversation
	Trust        Trust
}

// KeepStored is the argument of a MERGE that leaves the stored memory as it is.
const KeepStored = 1

// Limits of an ASK: the bytes of its prompt, and the tokens of its answer.
const (
	MaxPrompt = 8 << 10
	MaxAnswer = 1024
)
