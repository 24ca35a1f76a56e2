//! What the standard library would bring, without its WASI imports: memory, and what a panic does.
#![expect(unsafe_code, reason = "the canonical ABI's allocation function takes and returns raw memory")]

use alloc::alloc::{Layout, alloc, realloc};

#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

// On this target the compiler's calls to `memcpy`, `memcmp` and their like are answered by the toolchain's C library.
// Only those few pure functions are linked.
#[link(name = "c")]
unsafe extern "C" {}

/// A value that is made once in an instance.
pub(crate) struct Single<T>(core::cell::OnceCell<T>);

// SAFETY: a component of this interface has one thread.
unsafe impl<T> Sync for Single<T> {}

impl<T> Single<T> {
    pub(crate) const fn new() -> Self {
        Self(core::cell::OnceCell::new())
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }
}

/// A panic is a trap: it ends this journey's session, and the host's fallback takes over.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// Where the host puts lists and strings. The toolchain's C library has one too, with an allocator of its own that
/// could not free into ours; this one takes its place.
///
/// # Safety
/// As the canonical ABI calls it: `old` is null with `old_len` 0, or a block of that length and alignment from here.
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(old: *mut u8, old_len: usize, align: usize, new_len: usize) -> *mut u8 {
    if new_len == 0 {
        return core::ptr::without_provenance_mut(align);
    }
    // SAFETY: the caller passes the alignment of a type of the interface, and a block that came from here.
    let block = unsafe {
        if old_len == 0 {
            alloc(Layout::from_size_align_unchecked(new_len, align))
        } else {
            realloc(old, Layout::from_size_align_unchecked(old_len, align), new_len)
        }
    };
    if block.is_null() {
        core::arch::wasm32::unreachable();
    }
    block
}
