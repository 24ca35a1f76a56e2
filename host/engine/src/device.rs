//! Where a model is to run.

use std::fmt;
use std::str::FromStr;

use crate::EngineError;

/// A device, as configurations name it: `cpu`, `cuda` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
}

/// A text that names no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no device; a device is \"cpu\", \"cuda\" (the first GPU) or \"cuda:N\"")]
pub struct NoDevice;

impl Device {
    /// Whether this binary can use it; whether the machine has it shows when a model is loaded.
    ///
    /// # Errors
    /// [`EngineError::NoCuda`].
    pub fn check_built(self) -> Result<Self, EngineError> {
        if self != Self::Cpu && !cfg!(feature = "cuda") { Err(EngineError::NoCuda) } else { Ok(self) }
    }
}

impl FromStr for Device {
    type Err = NoDevice;

    fn from_str(text: &str) -> Result<Self, NoDevice> {
        match (text, text.strip_prefix("cuda:")) {
            ("cpu", _) => Ok(Self::Cpu),
            ("cuda", _) => Ok(Self::Cuda(0)),
            (_, Some(number)) => number.parse().map(Self::Cuda).map_err(|_| NoDevice),
            _ => Err(NoDevice),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_they_are_shown() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(3)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA"] {
            assert_eq!(wrong.parse::<Device>(), Err(NoDevice), "{wrong:?}");
        }
    }
}
